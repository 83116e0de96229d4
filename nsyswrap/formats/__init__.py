"""The formats, one module each: ``render(tables, ...) -> {file name: content}``. They print nothing."""
