from great_expectations.core.batch_definition import BatchDefinition

class _Asset:
    def add_batch_definition_whole_dataframe(self, name: str) -> BatchDefinition: ...

class PandasDatasource:
    def add_dataframe_asset(self, name: str) -> _Asset: ...
