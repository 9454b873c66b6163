"""Texts from the templates of the package's resources."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(name: str, **values: object) -> str:
    """Render a template that is not HTML: nothing is escaped, so every value must be safe in the text.

    Args:
        name: the template in `resources/`.
        **values: its variables; a missing variable is an error.
    """
    environment = Environment(
        loader=PackageLoader("py_driver", "resources"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  (no HTML)
    )
    return environment.get_template(name).render(values)
