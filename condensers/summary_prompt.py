"""A template of one's own for what a summarizer is asked."""

from __future__ import annotations

from ..events.event import InvalidArgument

__all__ = ["SummaryPrompt"]

_NAMES = ("record", "previous_summary", "max_output_tokens")


class SummaryPrompt:
    """A template of what a summarizer is asked. Raises :class:`InvalidArgument` if it has faults,
    or uses names that there are not."""

    def __init__(self, template: str) -> None:
        from jinja2 import StrictUndefined, TemplateError, meta
        from jinja2.sandbox import SandboxedEnvironment

        environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
        try:
            names = meta.find_undeclared_variables(environment.parse(template))
            self._template = environment.from_string(template)
        except TemplateError as error:
            raise InvalidArgument(f"the prompt is no jinja2 template: {error}") from error
        if unknown := sorted(names - set(_NAMES)):
            raise InvalidArgument(
                f"a prompt may use {', '.join(_NAMES)}; found {', '.join(unknown)}"
            )
        self.template = template
        self._holds_record = "record" in names

    def render(
        self, record: str, previous: str | None, max_output_tokens: int | None
    ) -> tuple[str, str]:
        """The prompt, and the record if it is not in it."""
        prompt = self._template.render(
            record=record, previous_summary=previous, max_output_tokens=max_output_tokens
        )
        return prompt, "" if self._holds_record else record
