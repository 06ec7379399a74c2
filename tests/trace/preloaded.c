/* A library that is preloaded: it changes a result, so that it shows whether it's there. */
int getpagesize(void) { return 12345; }
