return {
  commands = { { name = "sweep", before = "check", also = { "tune", "grid" } } },
}
