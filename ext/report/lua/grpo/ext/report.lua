return {
  commands = { { name = "report", before = "replay",
    also = { "tensorboard", "plot", serve = "report RUN --serve" } } },
}
