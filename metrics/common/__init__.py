"""What the whole project shares: errors, atomic storage, the command line, serving pages."""
