"""Models to fine-tune: where they lie, loading them, the tokens they need, which weights are trained, saving.

`load_model` is the way in. A GPT-2 of a named size with a tokenizer learnt on public rows is built by
``pipelines.training.model`` instead.
"""
