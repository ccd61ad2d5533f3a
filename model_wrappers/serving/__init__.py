"""What the answers of models behind servers say."""
