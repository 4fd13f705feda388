"""Chat templates that a configuration can name."""

_PLAIN = """\
{% for message in messages %}
{% if message.role == "system" and loop.first %}
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

_CHATML = """\
{% for message in messages %}
{{ "<|im_start|>" + message.role + "\\n" }}
{%- if message.role == "assistant" %}
{% generation %}{{ message.content + "<|im_end|>" }}{% endgeneration %}
{% else %}
{{ message.content + "<|im_end|>" }}
{%- endif %}
{{ "\\n" }}
{%- endfor %}
{% if add_generation_prompt %}{{ "<|im_start|>assistant\\n" }}{% endif %}"""

CHAT_TEMPLATES = {"plain": _PLAIN, "chatml": _CHATML}


def find_chat_template(name_or_source: str) -> str:
    """Returns a built-in chat template by its name, or a template as it is given.

    Example:
    >>> find_chat_template("{{ messages[0].content }}")
    '{{ messages[0].content }}'
    """
    return CHAT_TEMPLATES.get(name_or_source, name_or_source)
