"""Small programs that doctor runs in a process of their own. They fail with one line on stderr."""
