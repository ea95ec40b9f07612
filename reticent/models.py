"""Models that runs trained, opened with the encoding of their training.

>>> import reticent
>>> trained = reticent.open_trained(model_folder, device="cpu")  # latest/model of a run's public root
>>> losses = trained.losses(["my parcel is late", "good morning"])
>>> losses.per_record.shape, losses.of(0).shape == (losses.records.lengths[0],)
((2,), True)
>>> texts = trained.generate(["hello"], num=2, max_new_tokens=8, seed=1)
>>> len(texts), len(texts[0])
(1, 2)
"""

from pipelines.training.encoded import EncodedRecords, Losses, Record
from pipelines.training.trained import TrainedModel, open_trained

__all__ = ["EncodedRecords", "Losses", "Record", "TrainedModel", "open_trained"]
