// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/* A module whose functions are traced: writing to its parameter `go` calls them. */
#include <linux/module.h>

int mcount_test_inner(int n);
int mcount_test_outer(int n);

noinline int mcount_test_inner(int n)
{
	barrier();
	return n + 1;
}

noinline int mcount_test_outer(int n)
{
	return mcount_test_inner(n) * 2;
}

static int mcount_test_go(const char *text, const struct kernel_param *parameter)
{
	return mcount_test_outer(text[0]) ? 0 : -EINVAL;
}

static const struct kernel_param_ops go_operations = { .set = mcount_test_go };
module_param_cb(go, &go_operations, NULL, 0200);

static int __init mcount_test_start(void)
{
	return 0;
}

static void __exit mcount_test_stop(void)
{
}

module_init(mcount_test_start);
module_exit(mcount_test_stop);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Functions to trace");
