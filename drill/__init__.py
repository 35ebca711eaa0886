"""Every promise under drill: `make drill`. Kept apart from the tests, which stay short."""
