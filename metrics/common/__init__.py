"""Shared by the whole project: errors, atomic storage, the command line, serving pages."""
