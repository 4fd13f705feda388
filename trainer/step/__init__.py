"""One update of a model's weights, the same on every backend.

    loss = sum over all real targets of a batch / how many there are

An update may be made of several micro-batches, which take less memory: their gradients
are added up, each already divided by what the whole batch has, so nothing tells them
from the gradient of the batch in one piece. Then gradients are clipped, once; and if
they are not finite, the weights stay what they were.
"""
