//! A public key and tokens that its private key, which was thrown away, has signed.

pub(super) const N: &str = concat!(
    "wXkunOAWcXTgnEyPub2JERyqedbZtKJy_HwtyE9VeDT1sIreqnnoH4S8ODMMiF7LBjNTVsYSyuLHx1TcPTM2SwG0UGKWjXdinuZq",
    "BxaCQdihoBgM9xI1UkggdOKTq17isZaIWWU0MRO_F8sf41WDzDmdvOQl9v7rWx0FdZY7PDMwVhOEmB0Vu_0IoE01fNbqo7xiPRcK",
    "twNslCpTRbmUuyQz3xnnJpMQ4W47xgZ-9JqYOUMVa5whqqOYJMBzz8sfwLn4SqONM_Ztff7YG78BOYC0_8mwgirWc2pmswVu-8_U",
    "Vl3teOZ2Gs0kZD8qEIPialxpcyUxhnDyptYJ5QKLJQ",
);

pub(super) const RS256: &str = concat!(
    "eyJhbGciOiJSUzI1NiIsInR5cCI6ImF0K2p3dCIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2F1dGguZXhhbXBsZSIsImF",
    "1ZCI6Imh0dHBzOi8vbWNwLmV4YW1wbGUvbWNwIiwic3ViIjoiYWRhIiwiZXhwIjoxODAwMDAzNjAwfQ.BjvNq-6UX5t_VqW7XdMY",
    "q-bNSlRjdP0MPB3ysZw3B7wnbojPaTkBDUxyWp_mnescq_mZEsv9yM4CBNDYBM6tKPZ3Mvsr_z7wibYn6mILWftUxjClo8a39f_b",
    "lGrE7CTY4c5ta92fnSbVPNA2kuRvOstN3XQTjXASXU2jz3ZamWiecf0YObIYLZFyoy7jZJRGMYKpE1N5pDC2EkeQXaLGm-ISGm28",
    "uMBxPL7fFQua08zPBEvQQx73YGrwdKgA4de5xMVpZJX7BwtiV9ncOd6B7gfs3oKfZHcyW5H7XuAaqXoqMmYYm4MraC-1coMWaI8T",
    "Pa0J5gnGZIX_dyzGsv_BvQ",
);

pub(super) const PS256: &str = concat!(
    "eyJhbGciOiJQUzI1NiIsInR5cCI6ImF0K2p3dCIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2F1dGguZXhhbXBsZSIsImF",
    "1ZCI6Imh0dHBzOi8vbWNwLmV4YW1wbGUvbWNwIiwic3ViIjoiYWRhIiwiZXhwIjoxODAwMDAzNjAwfQ.NTUb78M9nFULzvT1zKOj",
    "uCZ3WC7HG1l7WWUDF-mxFhmOFzR4RqtifWWHWhfFnKPJf8rJG-ZuIqHTNbjm9hAdhZWSi0ls_aWhB0ietg0E1gyyvWgTssRAhICL",
    "cV1upb2jT2W-uGYpcX3bXTWX1xDDO_dwvWYmTaZQqEucJmcGSUp6u2IB40XmAjdJVRB5MnRmWC7oNyPFwHJ3mOWxv9jYK9MOIfNm",
    "MeUnmIq3mlQa35EHu-BBNQAWlnYvdOs_-fav0sV3vyBqm_iba90s0BHmo6NQNkh1Ux1QyMfHoVnHkXCbKriBte48WRVplk8-rTvw",
    "hdHhHbNxS8EKXM7WgxtvRQ",
);
