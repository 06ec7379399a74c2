// A hook and a table of other names.
//# compiler: gcc
//# flags: -O2 -pg -mfentry -mfentry-name=my_hook
//# options: --hook my_hook --table-section my_table
//# site: .text f call recorded
int f(int a) { return a + 1; }
