// fmt as part of the injected library: Debian has it as a shared library only, and a program that
// is recorded on another machine need not have that.
#include <fmt/format-inl.h>

namespace fmt::detail {

template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template char decimal_point_impl<char>(locale_ref);

}  // namespace fmt::detail
