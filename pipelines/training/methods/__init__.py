"""Training methods, one module each with ``prepare(corpus, settings)`` (`base`). `pipelines.methods` describes them."""
