"""Tasks: what a model is asked to do. A module each, with ``make_task(model, settings)``; `registry` says what each is.

Every task turns records into examples, one record into one example and looking at nothing else, so that a changed
record changes one example. What they are made of has ``len``, ``ids.lengths``, ``num_targets`` and ``collate``
(`pipelines.training.data.records.Examples`). The loss of each example may be differentiated example by example: it
depends on no other example, not even through padding.
"""
