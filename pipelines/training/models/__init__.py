"""Networks to train: where a model lies, loading it, the tokens that it needs, the weights to train, and saving.

`loading.open_model` and `loading.complete_model` load a pretrained model. The train stage uses
`pipelines.training.models.network`.
"""
