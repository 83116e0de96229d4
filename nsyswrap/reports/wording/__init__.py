"""The sentences about what is computed: made here alone, once, from a kind and its numbers."""
