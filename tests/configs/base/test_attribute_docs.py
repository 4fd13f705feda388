from transbeam.configs.base.attribute_docs import attribute_docs
from transbeam.configs.schema.model import DecoderConfig, StackConfig


class Section:
    """Not the docstring of `rate`."""

    rate: float = 0.1
    """Learning rate, over
    two lines.
    """

    plain: int = 0
    later: int = 1
    """Described."""

    def method(self) -> None:
        """A method's docstring is no attribute's."""


class Narrower(Section):
    later: int = 2
    """Described anew."""


def test_the_string_below_a_field_describes_it():
    assert attribute_docs(Section) == {
        "rate": "Learning rate, over two lines.",
        "later": "Described.",
    }


def test_a_subclass_describes_a_field_anew():
    assert attribute_docs(Narrower) == {
        "rate": "Learning rate, over two lines.",
        "later": "Described anew.",
    }


def test_bases_in_other_classes_count():
    stack_docs = attribute_docs(StackConfig)
    decoder_docs = attribute_docs(DecoderConfig)
    assert decoder_docs.items() >= stack_docs.items()
    assert "do not support" in decoder_docs["attention"]


def test_a_class_without_source_has_no_docs():
    typed = type("Typed", (), {"__module__": "typed_into_a_console"})
    assert attribute_docs(typed) == {}
