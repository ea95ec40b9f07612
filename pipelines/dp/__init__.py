"""The privacy engine: clipped gradient sums in one backward pass, and the optimizer and sampler around them.

grams.py         inner products of Gram matrices, blocked
uses.py          what one use of a parameter leaves behind: its norm, its gradient, its share of the sum
head_use.py      the same, of a language-model head: hidden states and normalisers, not logits
cancelling.py    examples whose terms are far larger than what they add up to: added up by themselves, in float64
tape.py          collects the uses of a batch; norms of shared parameters with their cross terms
layers.py        linear layers, embeddings and norms
lstm.py          nn.LSTM
head.py          language-model head and cross-entropy in one, chunk by chunk
language.py      the losses of language models, through that head where it fits
attach.py        puts the rules onto a model and refuses what it does not know
clipping.py      flat and automatic clipping
separating.py    few sets of examples that tell all of them apart
state.py         buffers and modules that keep what they saw
gradients.py     GradientEngine: from losses of examples to a clipped sum
noise.py         Gaussian noise from secret keys
company.py       small batches of the same records in different company
isolation.py     compares examples in them before the first step
random_states.py the random numbers that programs share
records.py       whether a record of a data set stands under several numbers
ranks.py         the processes that train one model together
sampling.py      Poisson samples in physical batches
optimizer.py     PrivateOptimizer: clip, add up, noise once, step
privacy.py       PrivacyEngine: the names that users know
callback.py      a callback for transformers' Trainer
errors.py        what the engine refuses
"""
