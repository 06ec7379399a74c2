! Counts its own calls, as hits.h does for C: recursion, arrays, strings, a result in memory, a nested procedure.
module counted
  implicit none
  integer(8) :: fibs = 0, sums = 0, turns = 0, inners = 0
contains
  recursive function fib(n) result(f)
    integer, intent(in) :: n
    integer :: f
    fibs = fibs + 1
    if (n < 2) then
      f = n
    else
      f = fib(n - 1) + fib(n - 2)
    end if
  end function

  function total(values) result(s)
    real(8), intent(in) :: values(:)
    real(8) :: s
    integer :: i
    sums = sums + 1
    s = 0
    do i = 1, size(values)
      s = s + square(values(i))
    end do
  contains
    function square(x) result(y)
      real(8), intent(in) :: x
      real(8) :: y
      inners = inners + 1
      y = x * x + 0 * s
    end function
  end function

  function turned(text) result(back)
    character(*), intent(in) :: text
    character(len(text)) :: back
    integer :: i
    turns = turns + 1
    do i = 1, len(text)
      back(i:i) = text(len(text) + 1 - i:len(text) + 1 - i)
    end do
  end function

  subroutine write_truth()
    character(4096) :: path
    integer :: status
    call get_environment_variable('TRUTH', path, status=status)
    if (status /= 0) return
    open(10, file=trim(path), position='append')
    call line('__counted_MOD_fib', fibs)
    call line('__counted_MOD_total', sums)
    call line('__counted_MOD_turned', turns)
    close(10)
  contains
    subroutine line(name, count)
      character(*), intent(in) :: name
      integer(8), intent(in) :: count
      write(10, '(i0, 1x, a, 1x, i0)') getpid(), name, count
    end subroutine
  end subroutine
end module

program main
  use counted
  implicit none
  real(8) :: values(100)
  integer :: i
  values = [(dble(i) / 7, i = 1, 100)]
  print '(i0)', fib(20)
  do i = 1, 50
    print '(f20.10, 1x, a)', total(values(1:i)), turned('a string of some length')
  end do
  call write_truth()
end program
