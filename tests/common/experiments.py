"""Experiments that are made shorter for a test."""
import re


def first_policy(text):
    """The same experiment with its first policy alone."""
    text, n = re.subn(r"policies = \(\s*(\{[^}]*\}).*?\n\);", r"policies = ( \1 );", text, count=1, flags=re.S)
    assert n == 1, text
    return text


def with_testbed(text, **settings):
    """With other settings of the testbed: numbers, or words."""
    for k in settings:
        text = re.sub(rf"(?m)^\s*{k} = [^;]*;\n", "", text)
    line = " ".join(f'{k} = "{v}";' if isinstance(v, str) else f"{k} = {v};" for k, v in settings.items())
    text, n = re.subn(r"testbed = \{", f"testbed = {{ {line}", text, count=1)
    assert n == 1, text
    return text
