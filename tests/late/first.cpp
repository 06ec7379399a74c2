#include "twice.h"

extern "C" int g(int a);

extern "C" int f(int a) {
    return twice(a) + g(a);
}
