"""The formats, one module each: ``render(tables, ...) -> {file name: text or bytes}``. They print nothing."""
