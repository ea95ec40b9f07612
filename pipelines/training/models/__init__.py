"""Models made elsewhere: where they lie, loading them, the tokens they need, which weights are trained, saving.

`loading.open_model` and `loading.complete_model` are the way in; `pipelines.training.models.network` is what the stage
sees.
"""
