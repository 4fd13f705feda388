"""Weight initializers: their default, and their seeds from the model's seed."""

import keras

from transbeam.model.base.seeds import derive_seed

# The type of a layer's initializer; None for BERT's, from `initializer_or_normal`.
InitializerLike = str | keras.initializers.Initializer | None


def initializer_or_normal(
    initializer: InitializerLike = None,
) -> keras.initializers.Initializer:
    """Returns a layer's weight initializer: the given one, or BERT's by default.

    Args:
        initializer: A Keras initializer or its name; None for a normal distribution of
            standard deviation 0.02, truncated at two deviations.

    Raises:
        ValueError: for a name that Keras does not know.

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

    Keras's initializers contain their seed, so an object that is shared by two weights
    of one shape fills both with the same numbers. Here a layer keeps one initializer
    and one seed, and each of its weights uses a copy.

    Args:
        initializer: A Keras initializer or its name. A seed it has is replaced.
        seed: Seed of the layer, or None for other numbers each time.
        names: The path of the weight in the layer, outermost name first.

    Returns:
        A new initializer; one without randomness, like `"zeros"`, is only copied.

    Raises:
        ValueError: for a name that Keras does not know.

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
