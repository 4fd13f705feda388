"""Chat templates that a configuration can name."""

# The beginning of the loop over messages. The system speaks first or not at all, then
# user and assistant take turns; other roles, such as of tools, may come between.
_TURNS = """\
{% for message in messages %}
{% set before = "" if loop.first else loop.previtem.role %}
{% if (message.role == "system" and not loop.first) or
      (message.role == "user" and before == "user") or
      (message.role == "assistant" and before in ["", "system", "assistant"]) %}
{{ raise_exception("roles out of order: expected turns of user and assistant, after " +
"at most one of system; found " + message.role +
(" after " + before if before else " first")) }}
{% endif %}
"""

_PLAIN = (
    _TURNS
    + """\
{% if message.role == "system" %}
{{ message.content }}{{ "\\n\\n" }}
{%- elif message.role == "user" %}
{{ "User: " + message.content + "\\n" }}
{%- elif message.role == "assistant" %}
{{ "Assistant:" }}{% generation %}{{ " " + message.content + eos_token }}\
{% endgeneration %}{{ "\\n" }}
{%- else %}
{{ raise_exception("expected turns of user and assistant, after at most one of " +
"system; found " + message.role) }}
{% endif %}
{% endfor %}
{% if add_generation_prompt %}{{ "Assistant:" }}{% endif %}"""
)

_CHATML = (
    _TURNS
    + """\
{{ "<|im_start|>" + message.role + "\\n" }}
{%- if message.role == "assistant" %}
{% generation %}{{ message.content + "<|im_end|>" }}{% endgeneration %}
{% else %}
{{ message.content + "<|im_end|>" }}
{%- endif %}
{{ "\\n" }}
{%- endfor %}
{% if add_generation_prompt %}{{ "<|im_start|>assistant\\n" }}{% endif %}"""
)

CHAT_TEMPLATES = {"plain": _PLAIN, "chatml": _CHATML}


def find_chat_template(name_or_source: str) -> str:
    """Returns a built-in chat template by its name, or a template as it is given.

    Example:
    >>> find_chat_template("{{ messages[0].content }}")
    '{{ messages[0].content }}'
    """
    return CHAT_TEMPLATES.get(name_or_source, name_or_source)
