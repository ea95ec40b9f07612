"""Tasks that a model learns, one module each with ``make_task(model, settings)``. `registry` describes them.

Every task turns each record into one example, without looking at other records, so that a changed record changes one
example. Examples have ``len``, ``ids.lengths``, ``num_targets`` and ``collate``
(`pipelines.training.data.records.Examples`). The loss of each example may be differentiated separately: it depends on
no other example, not even through padding.
"""
