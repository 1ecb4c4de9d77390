return {
  commands = { { name = "report", before = "replay",
    also = { "tensorboard", "plot", dashboard = "report RUN --serve" } } },
}
