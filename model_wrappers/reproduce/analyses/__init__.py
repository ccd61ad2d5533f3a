"""Items of the papers that are no table of models: figures and sums, from printed values, data or predictions."""
