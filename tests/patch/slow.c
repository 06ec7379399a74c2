// Functions that wait, or are waited for.
extern void hold(void);
int slow(int x) { hold(); return x + 100; }
int deep(int x) { return 1000 + x; }
int signalled(int x) { return x + 100; }
