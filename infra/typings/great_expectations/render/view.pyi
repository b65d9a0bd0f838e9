from typing import Any, ClassVar

from great_expectations.render import RenderedDocumentContent

class DefaultJinjaPageView:
    _template: ClassVar[str]
    env: Any
    def __init__(self) -> None: ...
    def render(self, document: RenderedDocumentContent, *, suite_name: str) -> str: ...
