"""Templates: names in braces, and the text around them."""

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.templates import template_fields, template_parts


def test_braces_that_are_meant() -> None:
    assert template_parts("{{x}} {text}") == (("{", None), ("x}", None), (" ", "text"))


def test_fields_come_in_the_order_of_the_template_and_as_often() -> None:
    assert template_fields("text", "{b} {a.0} {b}") == ["b", "a.0", "b"]


@pytest.mark.parametrize("template", ["{text", "text}", "{text}}", "{a{b}"])
def test_a_brace_without_its_partner(template: str) -> None:
    with pytest.raises(ConfigError, match="A brace that is meant is written twice"):
        template_fields("text", template)


def test_a_template_without_a_field() -> None:
    with pytest.raises(ConfigError, match="is the same for every document"):
        template_fields("text", "{{x}}")
