"""Chat templates: texts and spans by hand, and templates that break out or refuse."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from transbeam.pipeline.tokenizers.base.chat_template import (
    ChatTemplate,
    ChatTemplateError,
    RenderedChat,
)
from transbeam.pipeline.tokenizers.base.framing import Framing
from transbeam.pipeline.tokenizers.files.special_tokens import special_tokens
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel

# The roles must take turns, the user first.
CHATML = """\
{{- bos_token -}}
{%- for message in messages %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate, user first') }}
    {%- endif %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- generation %}{{- message.content + '<|im_end|>' }}{%- endgeneration %}
        {{- '\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
ASKED = {"role": "user", "content": "Où?"}
ANSWERED = {"role": "assistant", "content": "Là, 漢!"}


def rendered(source, messages=(), **variables):
    return ChatTemplate(source, {"bos_token": "<s>"}).render(messages, **variables)


def test_a_conversation_and_what_the_assistant_wrote():
    text, spans = rendered(CHATML, [ASKED, ANSWERED, ASKED, ANSWERED])
    turns = (
        "<|im_start|>user\nOù?<|im_end|>\n<|im_start|>assistant\nLà, 漢!<|im_end|>\n"
    )
    assert text == f"<s>{turns}{turns}"
    assert [text[a:b] for a, b in spans] == ["Là, 漢!<|im_end|>"] * 2
    # <s> 3, user 12 + 5 + 3 + 10 + 1, header 12 + 10, answer 6 + 10, line break 1.
    assert spans == ((56, 72), (126, 142))


def test_a_prompt_is_the_beginning_of_the_conversation():
    prompt = rendered(CHATML, [ASKED], add_generation_prompt=True)
    whole = rendered(CHATML, [ASKED, ANSWERED])
    assert prompt.assistant_spans == ()
    assert whole.text.startswith(prompt.text)
    assert whole.assistant_spans[0][0] == len(prompt.text)


def test_the_answer_s_text_in_a_question_is_no_answer():
    """Spans come of rendering: a search for the text would find the user's."""
    same = {"role": "user", "content": "Là, 漢!<|im_end|>"}
    text, spans = rendered(CHATML, [same, ANSWERED])
    assert spans == ((len(text) - 17, len(text) - 1),)


def test_roles_out_of_order():
    with pytest.raises(ChatTemplateError, match="roles must alternate, user first"):
        rendered(CHATML, [ANSWERED, ASKED])


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% if true %}\n  a\n  {% endif %}\nb", "  a\nb"),
        ("{{ messages[0].content }}", "<b>&'\"é"),  # no HTML escapes
        ("{{ messages[0] | tojson }}", '{"role": "user", "content": "<b>&\'\\"é"}'),
        ("{{ {'b': [2]} | tojson(indent=1) }}", '{\n "b": [\n  2\n ]\n}'),
        ("{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}", '{"a": 2, "b": 1}'),
        ("{{ [1, 2] | tojson(separators=(',', ':')) }}", "[1,2]"),
        (
            "{% for i in [1, 2] %}{{ i }}{% if i %}{% break %}{% endif %}{% endfor %}",
            "1",
        ),
        (
            "{% for i in 0, 1 %}{% if i %}{% continue %}{% endif %}{{ i }}{% endfor %}",
            "0",
        ),
        ("{{ strftime_now('%d %b %Y') }}", "29 Nov 2026"),
        ("{{ bos_token }}{{ eos_token }}{{ more }}", "<s>x"),
        ("{% generation %}{% endgeneration %}", ""),
    ],
)
def test_the_dialect(source, text):
    message = {"role": "user", "content": "<b>&'\"é"}
    now = datetime(2026, 11, 29)
    assert rendered(source, [message], now=now, more="x").text == text


def test_the_caller_s_variables_win():
    assert rendered("{{ bos_token }}", bos_token="[BOS]").text == "[BOS]"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ raise_exception.__globals__.json }}",
        "{{ strftime_now.__self__.__class__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='system') }}",
        "{% include 'x' %}",
        "{% import 'os' as os %}",
        "{% for i in range(10000000) %}{% endfor %}",
        "{{ none + 'a' }}",
        "{{ 1 / 0 }}",
        "{{ missing.content }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_templates_that_break_out_or_fail(source):
    messages = [dict(ASKED)]
    with pytest.raises(ChatTemplateError, match="the chat template"):
        rendered(source, messages)
    assert messages == [ASKED]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{% if %}", "line 1"),
        ("a\n{% generation %}", "endgeneration"),
        ("{% endgeneration %}", "endgeneration"),
        *(
            (source, "at the top level or in loops and conditions")
            for source in (
                "{% macro f() %}{% generation %}a{% endgeneration %}{% endmacro %}",
                "{% set x %}{% generation %}a{% endgeneration %}{% endset %}",
                "{% filter upper %}{% generation %}a{% endgeneration %}{% endfilter %}",
                "{% call f() %}{% generation %}a{% endgeneration %}{% endcall %}",
                "{% for i in [] recursive %}{% generation %}{% endgeneration %}"
                "{% endfor %}",
                "{% generation %}{% generation %}{% endgeneration %}"
                "{% endgeneration %}",
            )
        ),
    ],
)
def test_templates_that_cannot_be_compiled(source, words):
    with pytest.raises(ChatTemplateError, match=words):
        ChatTemplate(source, {})


def test_several_threads_render_at_once():
    template = ChatTemplate(CHATML, {"bos_token": "<s>"})

    def render(length):
        answer = {"role": "assistant", "content": "é" * length}
        text, ((start, end),) = template.render([ASKED, answer])
        return text[start:end]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(render, range(200)))
    assert found == ["é" * length + "<|im_end|>" for length in range(200)]


def test_a_begin_token_is_removed_once():
    chat = RenderedChat("<s><s>Hi", ((6, 8),))
    assert chat.without_prefix("<s>") == RenderedChat("<s>Hi", ((3, 5),))
    assert chat.without_prefix("") is chat
    assert chat.without_prefix("Hi") is chat


def test_special_tokens_by_name():
    pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a")
    for framing in (Framing(), Framing(add_begin=False)):
        model = WordPieceModel(
            pieces=pieces, lowercase=False, strip_accents=False, framing=framing
        )
        assert special_tokens(model) == {
            "bos_token": "[CLS]",
            "eos_token": "[SEP]",
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "mask_token": "[MASK]",
        }
