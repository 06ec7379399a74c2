#include "twice.h"

extern "C" int g(int a) {
    return twice(a) + 1;
}
