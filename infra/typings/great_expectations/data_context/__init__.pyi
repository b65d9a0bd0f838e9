from collections.abc import Mapping

from great_expectations.datasource.fluent import PandasDatasource

class _Sources:
    def add_pandas(self, name: str) -> PandasDatasource: ...

class _Variables:
    progress_bars: Mapping[str, bool]

class EphemeralDataContext:
    data_sources: _Sources
    variables: _Variables
    def enable_analytics(self, enable: bool | None) -> None: ...
