/* The program that runs the walk of a shared object. */
int walk(void);

int main(void) {
    return walk();
}
