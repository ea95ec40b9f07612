"""What a model is asked to do: examples with targets, the loss of each example, and what a trained model scores.

Every task turns rows into `examples.Example` values, one row into one example and looking at nothing else, so that a
changed record changes one example. `examples.write_examples` keeps them on disk; its `TaskRecords` has what a training
method reads (``len``, ``ids.lengths``, ``num_targets``, ``collate``). The loss of each example, (B,), comes from
`pipelines.training.losses.example_losses`, or a classification's own `example_losses`; its sum may be
differentiated example by example, for no example's loss depends on another example, not even through padding.
"""
