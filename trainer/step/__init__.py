"""An update of a model's weights, the same on every backend.

    loss = sum over all real targets of a batch / number of these targets

An update may consist of several micro-batches, which take less memory. The gradients of
micro-batches are already divided by the target count of the whole batch, so their sum
equals the gradient of the batch, if the loss of a record does not depend on others. The
loss of `contrastive_pairs` does, on those of the same micro-batch and replica. The
summed gradient is clipped once; if it is not finite, the weights stay unchanged.
"""
