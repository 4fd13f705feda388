"""Weight initializers: the default one, and seeds derived from the names of layers."""

import hashlib

import keras


def derive_seed(seed: int | None, *names: str) -> int | None:
    """Derives the seed of a named part of a model.

    Two layers of the same shape and seed would start with equal weights and drop the
    same units. Seeds derived from names, unlike those from a counter, do not change
    when a layer is added elsewhere.

    Args:
        seed: Seed of the model, or None for a different model each time.
        names: The path of the part, outermost name first.

    Returns:
        An int in `[0, 2**31)`, the same in every process; None if `seed` is None.

    Example:
    >>> derive_seed(17, "encoder_layer_0", "query")
    1133917908
    """
    if seed is None:
        return None
    digest = hashlib.blake2b("/".join((str(seed), *names)).encode(), digest_size=4)
    return int.from_bytes(digest.digest(), "little") & 0x7FFF_FFFF


# The type of a layer's initializer; None for BERT's, from `initializer_or_normal`.
InitializerLike = str | keras.initializers.Initializer | None


def initializer_or_normal(
    initializer: InitializerLike = None,
) -> keras.initializers.Initializer:
    """Returns a layer's weight initializer: the given one, or BERT's by default.

    Args:
        initializer: A Keras initializer or its name; None for a normal distribution
            with standard deviation 0.02, truncated at two standard deviations.

    Raises:
        ValueError: Keras has no initializer of this name.

    Example:
    >>> initializer_or_normal().stddev
    0.02

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805); the standard
          deviation is not in the paper, but in its code (`modeling.py`)
    """
    if initializer is None:
        return keras.initializers.TruncatedNormal(stddev=0.02)
    return keras.initializers.get(initializer)


def seeded(
    initializer: str | keras.initializers.Initializer, seed: int | None, *names: str
) -> keras.initializers.Initializer:
    """Copies an initializer, with a seed derived from names.

    Keras initializers store their seed, so one instance shared by two weights of the
    same shape gives both the same values. A layer keeps one initializer and one seed,
    and each of its weights uses a copy of the initializer with a different seed.

    Args:
        initializer: A Keras initializer or its name. The initializer's own seed, if
            any, is replaced.
        seed: Seed of the layer, or None for different values each time.
        names: The path of the weight in the layer, outermost name first.

    Returns:
        A new initializer; one without randomness, like `"zeros"`, is only copied.

    Raises:
        ValueError: Keras has no initializer of this name.

    Example:
    >>> query = seeded("glorot_uniform", 17, "query", "kernel")
    >>> query.get_config()["seed"] == derive_seed(17, "query", "kernel")
    True
    >>> seeded("zeros", 17, "query", "bias").get_config()
    {}
    """
    found = keras.initializers.get(initializer)
    config = found.get_config()
    if "seed" in config:
        config["seed"] = derive_seed(seed, *names)
    return type(found).from_config(config)
