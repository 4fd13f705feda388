"""A model of a few whole numbers: what it says follows from all tokens it was given."""

import numpy as np
from keras import ops

from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.model.kernels.cache_update import update_cache

VOCABULARY_SIZE = 11
STATES = 37


def table_model(seed: int = 0, scale: float = 2.0, **options) -> "FakeModel":
    """One whose scores are random and differ from state to state."""
    generator = np.random.default_rng(seed)
    table = generator.normal(0, scale, (STATES, VOCABULARY_SIZE)).astype("float32")
    return FakeModel(table, **options)


class FakeModel:
    """Scores by a state, which every token changes by its place in the text.

    The cache holds what each token adds, slot by slot, as an attention's does: a slot
    that is wrong, missing, or of another row changes what is said.
    """

    def __init__(self, table: np.ndarray, hidden_dim: int = 3):
        self.table = table
        generator = np.random.default_rng(1)
        self.states = generator.normal(size=(STATES, hidden_dim)).astype("float32")
        self.steps = DecodeFunctions(self.prefill, self.step, max_length=100)

    def logits_after(self, tokens: list[int]) -> np.ndarray:
        """The reference: no cache, no batch, no padding."""
        return self.table[self.state_after(tokens)]

    def state_after(self, tokens: list[int]) -> int:
        added = sum(token * (place + 1) for place, token in enumerate(tokens))
        return added % STATES

    def prefill(self, token_ids, padding_mask, slots):
        batch, length = ops.shape(token_ids)
        room = slots - length
        ones = ops.ones((batch, room), "int32")
        cache = {
            "added": ops.zeros((batch, 1, slots, 1), "float32"),
            "mask": ops.concatenate([padding_mask, ones], axis=1),
            "hidden": ops.zeros((batch, slots, self.states.shape[1])),
        }
        logits, cache = self.step(token_ids, cache, 0)
        return logits[:, -1], cache

    def step(self, token_ids, cache, index):
        length = ops.shape(token_ids)[1]
        slots = ops.shape(cache["mask"])[1]
        padding = ops.sum(1 - cache["mask"], axis=1, keepdims=True)  # (B, 1)
        columns = index + ops.arange(length, dtype="int32")
        positions = ops.expand_dims(columns, 0) - padding
        new = ops.cast(token_ids * (positions + 1), "float32")[:, None, :, None]
        added = update_cache(cache["added"], new, index)
        seen = ops.arange(slots, dtype="int32")[None] <= columns[:, None]  # (Q, S)
        real = ops.logical_and(seen[None], ops.not_equal(cache["mask"], 0)[:, None])
        total = ops.sum(
            ops.where(real, ops.transpose(added[..., 0], (0, 1, 2)), 0.0), axis=-1
        )
        states = ops.cast(total, "int32") % STATES  # (B, Q)
        hidden = ops.slice_update(
            cache["hidden"], (0, index, 0), ops.take(self.states, states, axis=0)
        )
        cache = {**cache, "added": added, "hidden": hidden}
        return ops.take(ops.convert_to_tensor(self.table), states, axis=0), cache


def numbers(result):
    """A result as numpy arrays."""
    return {name: ops.convert_to_numpy(part) for name, part in result.items()}
