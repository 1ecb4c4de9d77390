-- The extension gguf: models and adapters as files for llama.cpp.

return {
  model_formats = { { name = "gguf", ending = ".gguf", is = "one file for llama.cpp",
    adapter = "a file for llama.cpp beside its base", quantize = { "q8_0", "q4_0", "mxfp4" } } },
}
