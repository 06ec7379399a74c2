// COMDAT groups: an inline function and two instances of a template, each in its own section and group,
// beside a function of the ordinary .text. The linker drops all but one copy of a group, and the table
// entries of the dropped copies with it.

extern int outside(int);

inline int comdat_inline(int x)
{
	return outside(x) + 1;
}

template <typename T> T comdat_template(T x)
{
	return outside(static_cast<int>(x)) + x;
}

struct Comdat {
	virtual int method(int x)
	{
		return outside(x) * 2;
	}
	virtual ~Comdat() = default;
};

Comdat comdat_object;

int (*comdat_pointers[])(int) = {comdat_inline, comdat_template<int>};

int comdat_user(int x)
{
	return comdat_pointers[x & 1](x) + static_cast<int>(comdat_template<long>(x));
}
