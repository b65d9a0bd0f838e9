class ExpectationConfiguration:
    type: str
