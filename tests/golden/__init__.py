"""What the pipeline yields for fixed inputs, kept as digests: a change of structure changes none of them."""
