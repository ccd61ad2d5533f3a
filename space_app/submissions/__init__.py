"""Submissions: uploads, checks, sandbox, login, receipts."""
