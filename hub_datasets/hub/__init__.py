"""The Hugging Face Hub: publish, install by bare name, Spaces, model cards."""
