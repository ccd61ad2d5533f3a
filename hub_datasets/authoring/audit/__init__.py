"""Audit: how well a blind model predicts the labels."""
